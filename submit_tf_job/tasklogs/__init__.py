"""What tasks wrote: found wherever it is, cut into lines, put in order of time, followed. Knows no settings and prints nothing."""
