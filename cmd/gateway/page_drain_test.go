package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api"
)

func TestADrainIsForetoldWithWhoStaysFirst(t *testing.T) {
	vms := []api.DrainedVM{{VM: "web", To: "b"}, {VM: "db", Obstacle: "its disks are there"}}

	p := &page{}
	p.drained(vms)
	require.Regexp(t, `(?s)What a drain does.*db stays: its disks are there.*web moves to b`, p.text.String())

	for i := range 60 {
		vms = append(vms, api.DrainedVM{VM: fmt.Sprintf("vm-%d", i), To: "b"})
	}

	p = &page{}
	p.drained(vms)
	require.Contains(t, p.text.String(), "and 11 more of these")
}
