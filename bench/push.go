package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pushBytes is the size of the body that is sent, that of a usual push of GitHub.
const pushBytes = 7300

const pushSecret = "it is only the benchmark's"

// pushBody has the shape of a push of GitHub.
func pushBody() []byte {
	var b bytes.Buffer

	b.WriteString(`{"ref":"refs/heads/main","repository":{"id":1,"full_name":"example/app","private":false},"pusher":{"name":"dev"},"commits":[`)

	for n := 0; b.Len() < pushBytes-450; n++ {
		if n > 0 {
			b.WriteByte(',')
		}

		fmt.Fprintf(&b, `{"id":"%040d","message":"Change number %d of the application, with a line of explanation","timestamp":"2026-11-30T10:00:%02dZ",`+
			`"url":"https://git.example.com/example/app/commit/%040d","author":{"name":"Dev","email":"dev@example.com"},"added":[],"removed":[],"modified":["main.go","go.mod"]}`,
			n, n, n%60, n)
	}

	b.WriteString(`],"padding":"`)
	b.WriteString(strings.Repeat("x", max(pushBytes-b.Len()-2, 0)))
	b.WriteString(`"}`)

	return b.Bytes()
}

// load is what came of a load.
type load struct {
	Answered int
	Wall     time.Duration
	P50, P99 time.Duration
}

// perSecond returns the requests that were answered in a second.
func (l load) perSecond() float64 { return float64(l.Answered) / l.Wall.Seconds() }

// sendPushes sends signed pushes over connections that are kept, each the next once the one before was answered with 2xx.
// It is our own client: it writes a request that is made beforehand, but for the delivery's id, and reads the answer's
// status and length only, so that its CPU is small beside the server's.
func sendPushes(ctx context.Context, address, path string, connections int, duration time.Duration) (load, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		failed error
		number atomic.Int64
	)

	start := time.Now()

	for range connections {
		wg.Go(func() {
			own, err := sendOn(ctx, address, path, &number, start.Add(duration))

			mu.Lock()
			defer mu.Unlock()

			took = append(took, own...)

			if err != nil && failed == nil {
				failed = err
			}
		})
	}

	wg.Wait()

	l := load{Answered: len(took), Wall: time.Since(start)}
	q := quantilesOf(took)
	l.P50, l.P99 = q.P50, q.P99

	return l, failed
}

func sendOn(ctx context.Context, address, path string, number *atomic.Int64, end time.Time) (took []time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost

	body := pushBody()
	mac := hmac.New(sha256.New, []byte(pushSecret))
	mac.Write(body)

	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=%s\r\n"+
		"Content-Length: %d\r\nX-GitHub-Delivery: ", path, address, hex.EncodeToString(mac.Sum(nil)), len(body))
	request, answers := []byte(head), bufio.NewReader(conn)

	for time.Now().Before(end) {
		request = append(request[:len(head)], fmt.Sprintf("%d-%d\r\n\r\n", end.UnixNano(), number.Add(1))...)
		request = append(request, body...)
		sent := time.Now()

		if _, err := conn.Write(request); err != nil {
			return took, err
		}

		status, err := readAnswer(answers)

		switch {
		case err != nil:
			return took, err
		case status/100 == 2:
			took = append(took, time.Since(sent))
		case status == 503: // too many wait to be processed
			time.Sleep(time.Millisecond)
		default:
			return took, fmt.Errorf("%s answered %d", path, status)
		}
	}

	return took, nil
}

// readAnswer reads one answer and returns its status.
func readAnswer(r *bufio.Reader) (status int, err error) {
	length := 0

	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}

		text := strings.TrimRight(string(line), "\r\n")

		switch {
		case first:
			fields := strings.Fields(text)
			if len(fields) < 2 {
				return 0, fmt.Errorf("the answer begins with %q", text)
			}

			if status, err = strconv.Atoi(fields[1]); err != nil {
				return 0, err
			}
		case text == "":
			_, err := io.CopyN(io.Discard, r, int64(length))

			return status, err
		case strings.HasPrefix(strings.ToLower(text), "content-length:"):
			if length, err = strconv.Atoi(strings.TrimSpace(text[len("content-length:"):])); err != nil {
				return 0, err
			}
		}
	}
}
