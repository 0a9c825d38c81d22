package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// plain turns a result into what encoding/json writes: numbers keep their type, times are RFC 3339, durations are Go's,
// bytes are base64.
func plain(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.Bool, types.Int, types.Uint, types.String, types.Bytes:
		return v.Value(), nil
	case types.Null:
		return nil, nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v can't be written as JSON", f)
		}

		return float64(v), nil
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case traits.Mapper:
		return plainMap(v)
	case traits.Lister:
		return plainList(v)
	default:
		return plainStruct(value)
	}
}

// plainStruct writes an object, or its metadata, as the command line does with -o json.
func plainStruct(value ref.Val) (any, error) {
	switch v := value.Value().(type) {
	case Object, *Object, ObjectMetadata, *ObjectMetadata: // parts of a value are pointers
		encoded, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("error writing a %s as JSON: %w", value.Type().TypeName(), err)
		}

		return json.RawMessage(encoded), nil
	default:
		return nil, fmt.Errorf("a %s can't be written as JSON", value.Type().TypeName())
	}
}

func plainMap(m traits.Mapper) (any, error) {
	members := map[string]any{}

	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()

		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map with %s keys can't be written as JSON", key.Type().TypeName())
		}

		member, err := plain(m.Get(key))
		if err != nil {
			return nil, err
		}

		members[string(name)] = member
	}

	return members, nil
}

func plainList(l traits.Lister) (any, error) {
	elements := []any{}

	for it := l.Iterator(); it.HasNext() == types.True; {
		element, err := plain(it.Next())
		if err != nil {
			return nil, err
		}

		elements = append(elements, element)
	}

	return elements, nil
}
