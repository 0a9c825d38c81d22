package resources

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
)

// FieldError is a fault in one field of a specification.
type FieldError struct {
	// Path as in JSON: spec.disks[0].size.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

func (e FieldError) Error() string { return e.Path + ": " + e.Message }

// FieldErrors are all faults of one object. A nil or empty list means none.
type FieldErrors []FieldError

func (e FieldErrors) Error() string {
	parts := make([]string, len(e))
	for i, f := range e {
		parts[i] = f.Error()
	}

	return strings.Join(parts, "; ")
}

// Err returns the list as an error, nil when it is empty.
func (e FieldErrors) Err() error {
	if len(e) == 0 {
		return nil
	}

	return e
}

// Add notes a fault.
func (e *FieldErrors) Add(path, format string, args ...any) {
	*e = append(*e, FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Validator is a specification that checks what its types can't say. Paths start at "spec".
type Validator interface {
	Validate() FieldErrors
}

// maxName is the length of an RFC 1123 label.
const maxName = 63

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// ValidateName reports whether name is an RFC 1123 label: 1 to 63 of a-z, 0-9 and '-', not starting or ending with '-'.
// Every way in refuses other names identically.
func ValidateName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name is required")
	case len(name) > maxName:
		return fmt.Errorf("%.20q… has %d characters, at most %d are allowed", name, len(name), maxName)
	case !label.MatchString(name):
		return fmt.Errorf("%q is not a name: use 1 to %d of a-z, 0-9 and '-', starting and ending with a letter or digit", name, maxName)
	}

	return nil
}

// Limits of labels and annotations.
const (
	maxLabels          = 64
	maxLabelLength     = 253
	maxAnnotationBytes = 64 << 10
)

var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// ValidateLabels checks labels that a user wrote. Values are any printable text without control characters.
func ValidateLabels(path string, labels map[string]string) (errs FieldErrors) {
	if len(labels) > maxLabels {
		errs.Add(path, "%d labels, at most %d are allowed", len(labels), maxLabels)
	}

	for _, k := range SortedKeys(labels) {
		v := labels[k]

		switch {
		case len(k) > maxLabelLength || !labelKey.MatchString(k):
			errs.Add(path, "%q is not a label name", k)
		case strings.HasPrefix(k, reservedPrefix):
			errs.Add(path+"."+k, "names starting with %s are the gateway's own", reservedPrefix)
		case len(v) > maxLabelLength:
			errs.Add(path+"."+k, "the value has %d characters, at most %d are allowed", len(v), maxLabelLength)
		case strings.ContainsFunc(v, isControl):
			errs.Add(path+"."+k, "the value has a control character")
		}
	}

	return errs
}

// ValidateAnnotations checks annotations that a user wrote: at most 64 KiB in all, none of the gateway's own.
func ValidateAnnotations(path string, annotations map[string]string) (errs FieldErrors) {
	total := 0

	for _, k := range SortedKeys(annotations) {
		total += len(k) + len(annotations[k])

		if strings.HasPrefix(k, reservedPrefix) {
			errs.Add(path+"."+k, "names starting with %s are the gateway's own", reservedPrefix)
		}
	}

	if total > maxAnnotationBytes {
		errs.Add(path, "%d bytes of annotations, at most %d are allowed", total, maxAnnotationBytes)
	}

	return errs
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// Validate checks a declared resource: its name, labels, annotations, the values of its enums and what its
// specification checks itself.
func Validate(r resource.Resource) FieldErrors {
	var errs FieldErrors

	if err := ValidateName(r.Metadata().ID()); err != nil {
		errs.Add("metadata.name", "%s", err)
	}

	errs = append(errs, ValidateLabels("metadata.labels", r.Metadata().Labels().Raw())...)
	errs = append(errs, ValidateAnnotations("metadata.annotations", UserAnnotations(r.Metadata()))...)

	return append(errs, ValidateSpec(r.Spec())...)
}

// ValidateSpec checks the enums of a specification, and what it checks itself.
func ValidateSpec(spec any) FieldErrors {
	errs := enumErrors(nil, "spec", reflect.ValueOf(spec).Elem())

	if v, ok := spec.(Validator); ok {
		errs = append(errs, v.Validate()...)
	}

	return errs
}

func enumErrors(errs FieldErrors, path string, v reflect.Value) FieldErrors {
	switch v.Kind() { //nolint:exhaustive // only containers and strings can hold an enum
	case reflect.Pointer:
		if !v.IsNil() {
			errs = enumErrors(errs, path, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				errs = enumErrors(errs, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)

			name := FieldName(field)
			if name == "" {
				continue
			}

			at := path + "." + name

			if enum := EnumOf(field); enum != nil && v.Field(i).Kind() == reflect.String {
				if got := v.Field(i).String(); !slices.Contains(enum, got) && (got != "" || !optional(field)) {
					errs.Add(at, "%q is not one of %s", got, strings.Join(enum, ", "))
				}

				continue
			}

			errs = enumErrors(errs, at, v.Field(i))
		}
	}

	return errs
}

// optional reports whether a field may be left out without getting a default.
func optional(field reflect.StructField) bool {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")

	return strings.Contains(options, "omitempty") && field.Tag.Get("default") == ""
}

// SortedKeys returns the keys of m in order, so that messages and outputs are the same each time.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}

	slices.Sort(keys)

	return keys
}
