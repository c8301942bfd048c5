"""Read Hadoop's aggregated logs without Java: TFiles, IndexedFiles, and their directories.

A library of its own: it imports the standard library and itself, and takes any storage (`LogStore`)
whose errors pass through. Its own error is `Damaged`.
"""
