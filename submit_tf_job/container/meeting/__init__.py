"""Where the deciding task is, on clusters without Registry DNS."""
