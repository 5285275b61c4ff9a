package plan

import (
	"context"
	"errors"
	"fmt"
)

// ErrEndless is the error of a plan that takes more steps than any sane world needs.
var ErrEndless = errors.New("the simulation does not come to an end")

// bound limits the simulations of one plan: each to a number of steps in proportion to the
// objects and references it starts with, and all of them to their request's context.
type bound struct {
	ctx   context.Context
	steps int
	err   error
}

const (
	// stepsAtLeast and stepsPerObject are far above what random worlds take.
	stepsAtLeast   = 10_000
	stepsPerObject = 200
	// askEvery is how many steps are taken between two looks at the context.
	askEvery = 64
)

// begin allows one more simulation; false if the plan has ended.
func (b *bound) begin(w *World) bool {
	if b == nil {
		return true
	}
	b.steps = stepsAtLeast
	for _, k := range w.graph.Reached {
		if v, ok := w.graph.View(k); ok {
			b.steps += stepsPerObject * (1 + len(v.Record.References))
		}
	}
	b.ask()
	return b.err == nil
}

func (b *bound) ask() {
	if b.err == nil && b.ctx.Err() != nil {
		b.err = fmt.Errorf("simulating the deletion: %w", context.Cause(b.ctx))
	}
}

// step counts a step; false if there may be no more.
func (b *bound) step() bool {
	if b == nil {
		return true
	}
	if b.steps--; b.steps < 0 && b.err == nil {
		b.err = ErrEndless
	}
	if b.steps%askEvery == 0 {
		b.ask()
	}
	return b.err == nil
}
