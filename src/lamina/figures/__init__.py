"""Figures in SVG: line charts, bar charts and heat maps."""
