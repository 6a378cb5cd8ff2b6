"""From several lists to one: fusion, PageRank, scoring, freshness, confidence and citations. Pure."""
