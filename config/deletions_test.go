package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMassDeletionIsMoreThanWhatIsFreeAndMoreThanItsShareOrAll(t *testing.T) {
	deletions := Default().Deletions

	for name, test := range map[string]struct {
		n, total int
		mass     bool
	}{
		"nothing of nothing":             {0, 0, false},
		"nothing":                        {0, 10, false},
		"what is free":                   {10, 20, false},
		"more than that":                 {11, 20, true},
		"more than that of a large root": {11, 1000, false},
		"the share":                      {250, 1000, false},
		"more than the share":            {251, 1000, true},
		"all, though it is free":         {1, 1, true},
	} {
		require.Equal(t, test.mass, deletions.IsMass(test.n, test.total), name)
	}
}
