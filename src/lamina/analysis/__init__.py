"""What a run shows of itself: numbers, pictures and pages."""
