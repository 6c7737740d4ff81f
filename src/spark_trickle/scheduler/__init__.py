"""Keep stream tables as fresh as their schedules ask: `decide` says what is due, `loop` does it."""
