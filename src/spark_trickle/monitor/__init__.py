"""What is told about a lake from its catalog alone: no data is read and no Spark is needed."""
