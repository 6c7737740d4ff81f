"""`trickle up` to others: the HTTP API, the page, and how other commands find the process.

Nothing is imported here: the command line asks whether a service runs before it imports anything heavy.
"""
