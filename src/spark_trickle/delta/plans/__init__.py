"""How a stream table is kept: what identifies its rows, which columns its storage has, what a refresh computes.

At the root the old output is the stream table's own storage, so an aggregate there needs no old input state.
"""
