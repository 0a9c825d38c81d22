package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gateway/resources"
	"gateway/resources/expression"
)

// objects are what the event of the case names.
func (c *Case) objects() ([]expression.Object, error) {
	objects := make([]expression.Object, 0, len(c.Objects))

	for i, given := range c.Objects {
		found, err := c.object(given)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}

		objects = append(objects, found...)
	}

	return objects, nil
}

// object reads an element of objects: an object, or a file of them.
func (c *Case) object(given resources.JSON) ([]expression.Object, error) {
	var reference struct {
		Recorded string `json:"recorded"`
	}

	if err := json.Unmarshal(given, &reference); err != nil {
		return nil, fmt.Errorf("an object, or {recorded: FILE}, is needed: %w", err)
	}

	if reference.Recorded != "" {
		path := reference.Recorded
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.dir, path)
		}

		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, bare(err))
		}

		return recordedObjects(path, data)
	}

	object, err := parse(given)
	if err != nil {
		return nil, err
	}

	return []expression.Object{object}, nil
}

// recordedObjects reads what `gateway get KIND [NAME] -o json` wrote.
func recordedObjects(path string, data []byte) ([]expression.Object, error) {
	var list struct {
		Items []resources.JSON `json:"items"`
	}

	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: not what `gateway get -o json` writes: %w", path, err)
	}

	if list.Items == nil {
		list.Items = []resources.JSON{data}
	}

	objects := make([]expression.Object, len(list.Items))

	for i, item := range list.Items {
		var err error
		if objects[i], err = parse(item); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}

	return objects, nil
}

func parse(text []byte) (expression.Object, error) {
	object, err := expression.ParseObject(text)
	if err == nil && (object.Kind == "" || object.Metadata.Name == "") {
		err = fmt.Errorf("an object has a kind and a metadata.name")
	}

	return object, err
}
