"""How the models of a profile are served: plan, memory, flags with reasons, text, start and stop."""
