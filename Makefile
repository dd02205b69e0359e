.PHONY: book test fast lab clean
book: ; python3 run.py book
test: ; python3 run.py test
fast: ; python3 run.py test --fast
lab: ; python3 run.py lab
clean: ; python3 run.py clean
