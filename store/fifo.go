package store

// fifo is a queue whose front can be taken off without moving the rest each time.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(items ...T) { f.items = append(f.items, items...) }

// front returns the oldest item; only where len is not 0.
func (f *fifo[T]) front() *T { return &f.items[f.head] }

// firstN returns the n oldest items. The slice is valid until they are dropped.
func (f *fifo[T]) firstN(n int) []T { return f.items[f.head : f.head+n] }

// drop takes the n oldest items off and lets go of what they point to.
func (f *fifo[T]) drop(n int) {
	clear(f.items[f.head : f.head+n])
	f.head += n

	// Moving the rest only when the empty part is the larger one makes dropping constant on average.
	if f.head > len(f.items)/2 {
		f.items = append(f.items[:0:0], f.items[f.head:]...)
		f.head = 0
	}
}
