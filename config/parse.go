package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits of one input. A gateway's largest documents are VMs with cloud-init user data of 256 KiB; 4 MiB are a thousand
// VMs of ordinary size. What aliases stand for is counted as if it were written out: it may not be more than that again.
const (
	// MaxFileBytes is the size of the largest file of documents, and of all else that is read as one.
	MaxFileBytes  = 4 << 20
	maxDocuments  = 10_000
	maxDepth      = 64
	maxAliasBytes = 4 << 20
	// aliasNodeBytes is what a node costs beside its text, so that many empty ones are bounded too.
	aliasNodeBytes = 8
)

// parser turns text into nodes without aliases, merge keys or duplicate keys, and collects faults on the way.
type parser struct {
	file string
	errs Errors
	// aliasBytes is what aliases have stood for so far.
	aliasBytes int
	// plain holds the nodes whose own aliases are already replaced.
	plain map[*yaml.Node]bool
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	if len(p.errs) > maxErrors {
		return
	}

	p.errs = append(p.errs, Error{File: p.file, Line: max(n.Line, 1), Column: max(n.Column, 1), Message: fmt.Sprintf(format, args...)})
}

// parse returns the root node of each document in the input that is not empty. The documents before a fault of syntax are
// returned with it, so that their own faults can be reported too.
func parse(file string, data []byte) ([]*yaml.Node, Errors) {
	if len(data) > MaxFileBytes {
		line, column := position(data, MaxFileBytes)

		return nil, Errors{{File: file, Line: line, Column: column, Message: fmt.Sprintf("%d bytes, at most 4 MiB are allowed", len(data))}}
	}

	text, fault := normalize(file, data)
	if fault != nil {
		return nil, Errors{*fault}
	}

	p := &parser{file: file, plain: map[*yaml.Node]bool{}}

	if root, ok := parseJSON(text); ok {
		if n := p.expand(root, 1, false); n != nil {
			return []*yaml.Node{n}, p.errs
		}

		return nil, p.errs
	}

	return p.parseYAML(text), p.errs
}

func (p *parser) parseYAML(text []byte) (roots []*yaml.Node) {
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		p.errs = append(p.errs, Error{File: p.file, Line: 1, Column: 1, Message: err.Error()})

		return nil
	}

	for count := 0; ; count++ {
		var document yaml.Node

		err := loader.Load(&document)
		if errors.Is(err, io.EOF) {
			return roots
		}

		if err != nil {
			p.syntax(text, err)

			return roots
		}

		if count == maxDocuments {
			p.fail(&document, "more than %d documents", maxDocuments)

			return roots
		}

		for _, root := range document.Content {
			if scalarTag(root) == tagNull {
				continue
			}

			if root = p.expand(root, 1, false); root != nil {
				roots = append(roots, root)
			}
		}
	}
}

// syntax notes a fault that the YAML parser found, in words for who wrote the file.
func (p *parser) syntax(text []byte, err error) {
	fault := Error{File: p.file, Line: 1, Column: 1, Message: err.Error()}

	var load *yaml.LoadError
	if errors.As(err, &load) {
		at := load.Mark

		switch {
		case strings.Contains(load.Message, "max depth"):
			fault.Message = fmt.Sprintf("nested more than %d levels deep", maxDepth)
		case strings.Contains(load.Message, "cannot start any token") && characterAt(text, at) == '\t':
			fault.Message = "a tab can't indent: use spaces"
		case strings.Contains(load.Message, "end of stream") && load.ContextMark.Line > 0:
			// Where it was opened helps more than where the file ends.
			at, fault.Message = load.ContextMark, load.Message+" "+load.ContextMsg
		default:
			fault.Message = strings.TrimSpace(load.Message + " " + load.ContextMsg)
		}

		if at.Line == 0 {
			at = load.ContextMark
		}

		if at.Line > 0 {
			fault.Line, fault.Column = at.Line, max(at.Column, 1)
		}
	}

	p.errs = append(p.errs, fault)
}

// characterAt returns the byte at a position that is the first of its line or after plain ASCII; else another one.
func characterAt(text []byte, at yaml.Mark) byte {
	lines := bytes.Split(text, []byte("\n"))
	if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || at.Column > len(lines[at.Line-1]) {
		return 0
	}

	return lines[at.Line-1][at.Column-1]
}

// expand returns the node with its aliases replaced by what they stand for (shared, not copied), merge keys applied, and
// keys checked; nil after a fault that makes the rest meaningless. A node below an alias is walked once for each time it
// is stood for: that is what the limit counts, and it ends recursion through an anchor inside itself as well.
func (p *parser) expand(n *yaml.Node, depth int, aliased bool) *yaml.Node {
	if depth > maxDepth {
		p.fail(n, "nested more than %d levels deep", maxDepth)

		return nil
	}

	if n.Kind == yaml.AliasNode {
		return p.expand(n.Alias, depth, true)
	}

	if aliased {
		p.aliasBytes += aliasNodeBytes + len(n.Value)
		if p.aliasBytes > maxAliasBytes {
			p.fail(n, "aliases stand for more than 4 MiB of text")

			return nil
		}
	}

	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if aliased {
				p.aliasBytes += aliasNodeBytes + len(child.Value)
			}

			continue
		}

		plain := p.expand(child, depth+1, aliased)
		if plain == nil {
			return nil
		}

		n.Content[i] = plain
	}

	if n.Kind == yaml.MappingNode && !p.plain[n] {
		p.plain[n] = true

		return p.keys(n)
	}

	return n
}

// keys checks the keys of a mapping and applies its merge key.
func (p *parser) keys(n *yaml.Node) *yaml.Node {
	seen := make(map[string]int, len(n.Content)/2)
	own := make([]*yaml.Node, 0, len(n.Content))

	var merged []*yaml.Node

	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}

		switch {
		case key.Kind != yaml.ScalarNode:
			p.fail(n.Content[i], "a key has to be text, not a %s", describe(key))
		case key.Value == "<<" && key.Style == 0 && key.Tag == "!!merge":
			merged = append(merged, p.sources(value)...)
		case seen[key.Value] > 0:
			p.fail(n.Content[i], "%s is already given in line %d", quotedField(key.Value), seen[key.Value])
		default:
			seen[key.Value] = max(key.Line, 1)
			own = append(own, key, value)
		}
	}

	for _, source := range merged {
		for i := 0; i+1 < len(source.Content); i += 2 {
			if key := source.Content[i]; seen[key.Value] == 0 {
				seen[key.Value] = max(key.Line, 1)
				own = append(own, key, source.Content[i+1])
			}
		}
	}

	n.Content = own

	return n
}

// sources returns the mappings that a merge key (`<<`) names.
func (p *parser) sources(n *yaml.Node) []*yaml.Node {
	switch n.Kind { //nolint:exhaustive // aliases are gone; anything else is a fault
	case yaml.MappingNode:
		return []*yaml.Node{n}
	case yaml.SequenceNode:
		var all []*yaml.Node
		for _, child := range n.Content {
			all = append(all, p.sources(child)...)
		}

		return all
	}

	p.fail(n, "<< needs a mapping or a list of mappings, not a %s", describe(n))

	return nil
}
