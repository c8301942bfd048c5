"""Read and renew Hadoop delegation tokens inside a container."""
