"""How sure a system says it is, and how sure it may be."""
