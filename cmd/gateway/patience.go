package main

import (
	"fmt"
	"time"
)

// patience is a flag's duration that is not negative: one that is can only be a mistake, and would be over before it began.
type patience time.Duration

// String implements pflag.Value.
func (p *patience) String() string { return time.Duration(*p).String() }

// Type implements pflag.Value; the help shows it.
func (p *patience) Type() string { return "duration" }

// Set implements pflag.Value.
func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}

	if d < 0 {
		return fmt.Errorf("%s is negative", d)
	}

	*p = patience(d)

	return nil
}
