"""One run on many machines, by Ray: the same stage functions, the same files, other hands.

Ray is optional (extra ``ray``), and is imported only where settings ask for it.
"""
