package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api/client"
	"gateway/resources"
)

func TestATableIsSortedByWhatItShowsFirst(t *testing.T) {
	kind, ok := resources.KindByName("FileStatus")
	require.True(t, ok)

	var out bytes.Buffer

	objects := []client.Object{
		*objectOf("FileStatus", "", `{"path": "/d/network.yaml"}`),
		*objectOf("FileStatus", "", `{"path": "/d/sub/vms.yaml"}`),
		*objectOf("FileStatus", "", `{"path": "/d/host.yaml"}`),
	}

	require.NoError(t, (&app{out: &out}).printObjects(getFlags{kind: kind, output: outputTable}, nil, objects))
	require.Equal(t, []string{"/d/host.yaml", "/d/network.yaml", "/d/sub/vms.yaml"}, regexp.MustCompile(`/d/\S+`).FindAllString(out.String(), -1))
}
