"""The model: an encoder, a bridge and a head around one decoder.

Shape suffixes, here and in `lamina.search`: B batch, S source, T target, M memory, D model, H heads,
K head size, F feed-forward, V vocabulary, L encoder layers, J decoder layers, N tokens,
W rows of one source (its hypotheses), R rows (batch × beam).
"""
