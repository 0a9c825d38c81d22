package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gateway/api/client"
)

func (a *app) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "describe KIND NAME",
		Short:             "Print everything about one object",
		Long:              "Prints everything about one object: what is declared, what was observed, what it waits for, and what happened to it.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := objectNamed(args)
			if err != nil {
				return err
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			description, err := c.Describe(ctx, kind.Name, name)
			if err != nil {
				return err
			}

			text, err := describe(&description)
			if err != nil {
				return err
			}

			_, err = fmt.Fprint(a.out, text)

			return err
		},
	}
}

// describe is the text of a description.
func describe(d *client.Description) (string, error) {
	p := &page{}
	p.identity(d)

	if err := p.observed(d); err != nil {
		return "", err
	}

	p.machine(d)
	p.standing(d)

	if err := p.specification(d); err != nil {
		return "", err
	}

	p.history(d)

	return p.text.String(), nil
}
