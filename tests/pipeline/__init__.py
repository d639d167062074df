"""Jobs of the pipeline on a real Spark; everything here is tier `spark`."""
