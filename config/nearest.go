package config

import "strings"

// nearest returns the candidate that somebody who wrote name most likely meant; empty where none is near.
func nearest(name string, candidates []string) string {
	// Long unknown names are no typing mistakes, and the comparison costs the product of both lengths.
	if len(name) > 64 {
		return ""
	}

	// One mistake in three letters is a typo; more is another word.
	best, limit := "", len(name)/3+1

	for _, c := range candidates {
		if strings.EqualFold(name, c) {
			return c
		}

		// An abbreviation, or a word that was written out: warning for warn, mem for memory.
		if best == "" && len(c) >= 3 && len(name) >= 3 && (strings.HasPrefix(name, c) || strings.HasPrefix(c, name)) {
			best = c
		}

		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < limit && d < len(c) {
			best, limit = c, d
		}
	}

	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}

	for i := 1; i <= len(a); i++ {
		row[0] = i

		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}

			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)

			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}

		before, last, row = last, row, before
	}

	return last[len(b)]
}
