"""Figures as SVG: lines, bars and coloured maps in one style."""
