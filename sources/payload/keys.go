package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
)

const (
	// fewKeys of an object are compared one by one; above it a map finds them, so that an object with a hundred thousand
	// keys is not ten thousand million comparisons.
	fewKeys = 64
	// keptKeys is how many keys' room a scanner that is used again holds on to.
	keptKeys = 1024
)

// keySeed is random in each process: nobody can send keys that collide.
var keySeed = maphash.MakeSeed()

// objectKey is a key of an open object.
type objectKey struct {
	hash uint64
	text []byte
}

// openObject is an object whose end was not seen yet.
type openObject struct {
	// first is where its keys begin in the stack.
	first int
	// index finds its keys by their hash; nil while there are few.
	index map[uint64]int
}

// keyStack holds the keys of all objects that are open, innermost last.
type keyStack struct {
	keys    []objectKey
	objects []openObject
}

func (k *keyStack) reset() {
	clear(k.keys) // they point into the text
	clear(k.objects)
	k.keys, k.objects = k.keys[:0], k.objects[:0]

	if cap(k.keys) > keptKeys {
		k.keys = nil
	}
}

func (k *keyStack) open() { k.objects = append(k.objects, openObject{first: len(k.keys)}) }

func (k *keyStack) close() {
	last := len(k.objects) - 1
	first := k.objects[last].first
	clear(k.keys[first:])
	k.keys = k.keys[:first]
	k.objects[last].index = nil
	k.objects = k.objects[:last]
}

// add takes the next key of the innermost object, with its quotes. The same key written in another way is the same key.
func (k *keyStack) add(quoted []byte, escaped bool) error {
	text := quoted[1 : len(quoted)-1]

	if escaped {
		var decoded string
		if err := json.Unmarshal(quoted, &decoded); err != nil {
			return fmt.Errorf("error decoding the key %.40q: %w", text, err)
		}

		text = []byte(decoded)
	}

	object := &k.objects[len(k.objects)-1]
	key := objectKey{hash: maphash.Bytes(keySeed, text), text: text}

	if k.has(object, key) {
		return fmt.Errorf("the key %.40q is there twice", text)
	}

	k.keys = append(k.keys, key)

	if object.index != nil {
		object.index[key.hash] = len(k.keys) - 1
	} else if len(k.keys)-object.first > fewKeys {
		object.index = make(map[uint64]int, 4*fewKeys)

		for i := object.first; i < len(k.keys); i++ {
			object.index[k.keys[i].hash] = i
		}
	}

	return nil
}

func (k *keyStack) has(object *openObject, key objectKey) bool {
	if object.index != nil {
		i, ok := object.index[key.hash]
		if !ok {
			return false
		}

		if bytes.Equal(k.keys[i].text, key.text) {
			return true
		} // else two keys of one hash, which nobody will see: the index holds only one of them
	}

	for _, other := range k.keys[object.first:] {
		if other.hash == key.hash && bytes.Equal(other.text, key.text) {
			return true
		}
	}

	return false
}
