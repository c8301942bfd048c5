"""Copy inputs and outputs inside a container."""
