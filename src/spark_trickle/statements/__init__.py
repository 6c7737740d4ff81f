"""STREAM TABLE statements: text (`parse`) to data (`data`) to calls of the engine (`execute`)."""
