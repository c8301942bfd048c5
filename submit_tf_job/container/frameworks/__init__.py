"""What the strategies of one framework need in a container."""
