"""What a run leaves on disk, and where: typed, versioned records, each with one writer and one reader."""
