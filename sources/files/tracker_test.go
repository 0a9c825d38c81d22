package files

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seen makes a snapshot of files and their contents.
func seen(contents map[string]string) Snapshot {
	s := Snapshot{Available: true, Files: map[string]Look{}, Unreadable: map[string]string{}}

	for path, content := range contents {
		s.Files[path] = Look{Path: path, Digest: content, Bytes: int64(len(content)), stamp: stamp{size: int64(len(content))}}
	}

	return s
}

func changed(b Batch) []string {
	paths := []string{}
	for _, look := range b.Changed {
		paths = append(paths, look.Path+"="+look.Digest)
	}

	return paths
}

const settle = 250 * time.Millisecond

func TestAFileCountsOnceItIsSettled(t *testing.T) {
	tracker, now := NewTracker(settle, false), time.Now()

	b := tracker.Observe(seen(map[string]string{"/r/a.yaml": "1"}), now)
	require.Empty(t, b.Changed)
	require.Equal(t, settle, b.Wait)
	require.Equal(t, []string{"/r"}, b.Again)

	b = tracker.Observe(seen(map[string]string{"/r/a.yaml": "12"}), now.Add(200*time.Millisecond))
	require.Empty(t, b.Changed, "it is still being written")
	require.Equal(t, settle, b.Wait)

	b = tracker.Observe(seen(map[string]string{"/r/a.yaml": "12"}), now.Add(450*time.Millisecond))
	require.Equal(t, []string{"/r/a.yaml=12"}, changed(b))
	require.Zero(t, b.Wait)

	b = tracker.Observe(seen(map[string]string{"/r/a.yaml": "12"}), now.Add(time.Second))
	require.Empty(t, b.Changed)
}

func TestATouchedFileIsNotSettledAlthoughItLooksTheSame(t *testing.T) {
	tracker, now := NewTracker(settle, true), time.Now()

	s := seen(map[string]string{"/r/a.yaml": "1"})
	look := s.Files["/r/a.yaml"]
	look.Changed = now.Add(-100 * time.Millisecond)
	s.Files["/r/a.yaml"] = look

	require.Equal(t, 150*time.Millisecond, tracker.Observe(s, now).Wait, "the file system knows since when it is so")
	tracker.Touch("/r/a.yaml", now.Add(200*time.Millisecond))

	b := tracker.Observe(s, now.Add(300*time.Millisecond))
	require.Empty(t, b.Changed)
	require.Equal(t, 150*time.Millisecond, b.Wait)
}

func TestCaseS20AFileThatIsAwayForAMomentIsNotGone(t *testing.T) {
	tracker, now := NewTracker(settle, false), time.Now()
	tracker.known["/r/a.yaml"] = "1"
	tracker.known["/r/b.yaml"] = "1"

	b := tracker.Observe(seen(map[string]string{"/r/b.yaml": "1"}), now)
	require.Empty(t, b.Gone)
	require.Equal(t, settle, b.Wait)

	b = tracker.Observe(seen(map[string]string{"/r/a.yaml": "1", "/r/b.yaml": "1"}), now.Add(settle))
	require.Empty(t, b.Gone)
	require.Zero(t, b.Wait)

	tracker.Observe(seen(map[string]string{"/r/b.yaml": "1"}), now.Add(time.Second))
	b = tracker.Observe(seen(map[string]string{"/r/b.yaml": "1"}), now.Add(time.Second+settle))
	require.Equal(t, []string{"/r/a.yaml"}, b.Gone)
}

func TestAFileThatCameBackWaitsUntilItsRemovalIsDealtWith(t *testing.T) {
	tracker, now := NewTracker(settle, false), time.Now()
	tracker.known["/r/a.yaml"] = "1"

	tracker.Observe(seen(nil), now)
	require.Len(t, tracker.Observe(seen(nil), now.Add(settle)).Gone, 1)

	tracker.Observe(seen(map[string]string{"/r/a.yaml": "1"}), now.Add(2*settle))
	b := tracker.Observe(seen(map[string]string{"/r/a.yaml": "1"}), now.Add(3*settle))
	require.Empty(t, b.Changed)
	require.True(t, b.Held)

	tracker.Released("/r/a.yaml")
	b = tracker.Observe(seen(map[string]string{"/r/a.yaml": "1"}), now.Add(4*settle))
	require.Equal(t, []string{"/r/a.yaml=1"}, changed(b))
	require.False(t, b.Held)
}

func TestCaseS28WhatCanNotBeSeenIsNotGone(t *testing.T) {
	tracker, now := NewTracker(settle, false), time.Now()
	tracker.known["/r/sub/a.yaml"] = "1"

	for name, s := range map[string]Snapshot{
		"the root is not available":     {},
		"the directory is not readable": {Available: true, Unreadable: map[string]string{"/r/sub": "permission denied"}},
		"the file is not readable":      {Available: true, Files: map[string]Look{"/r/sub/a.yaml": {Path: "/r/sub/a.yaml", Err: "permission denied"}}},
	} {
		for i := range 3 {
			b := tracker.Observe(s, now.Add(time.Duration(i)*time.Second))
			require.Empty(t, b.Gone, name)
			require.Empty(t, b.Changed, name)
		}
	}
}

func TestCaseS23FilesOfOneGenerationSettleTogether(t *testing.T) {
	tracker, now := NewTracker(settle, true), time.Now()
	generation := seen(map[string]string{"/r/a.yaml": "1", "/r/b.yaml": "2"})

	for path, age := range map[string]time.Duration{"/r/a.yaml": 400 * time.Millisecond, "/r/b.yaml": 100 * time.Millisecond} {
		look := generation.Files[path]
		look.Group, look.Changed = "/r", now.Add(-age)
		generation.Files[path] = look
	}

	b := tracker.Observe(generation, now)
	require.Empty(t, b.Changed)
	require.Equal(t, 150*time.Millisecond, b.Wait)
	require.Equal(t, []string{"/r/a.yaml=1", "/r/b.yaml=2"}, changed(tracker.Observe(generation, now.Add(150*time.Millisecond))))
}
