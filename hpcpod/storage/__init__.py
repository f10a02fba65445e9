"""Storage: the run folder, its blobs, its board, and the promises that it keeps."""
