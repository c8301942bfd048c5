"""Link and unpack the files that travel with a job."""
