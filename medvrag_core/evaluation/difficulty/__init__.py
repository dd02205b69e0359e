"""How hard a set of questions is: what can be had without reading, and what pages have to be found."""
