package graph

import (
	"fmt"
	"slices"
)

// maxFacts is how many facts about places that nothing names any more are kept of one UID. References
// that are written again and again, each time with other coordinates, would make them grow for ever.
const maxFacts = 64

// fewFacts is how many facts are searched one by one.
const fewFacts = 64

// factSet holds what has been proved about one UID, the oldest first, by place. The zero value is empty.
//
// How much it may hold depends on the references to the UID: while the places that they declare are being verified, turn by
// turn, none of these facts may be lost, or the verification would never end.
type factSet struct {
	list []placedFact
	// index says where in list a place is; nil while there are few.
	index map[Coordinates]int
	// weight is the sum of the facts' weights.
	weight int
}

// weightOf is the share of what may be remembered that a name takes. Nothing bounds the length of the names in references.
func weightOf(name string) int { return 1 + len(name)/256 }

func (s *factSet) len() int { return len(s.list) }

// find returns the index of the fact about a place, or -1.
func (s *factSet) find(at Coordinates) int {
	if s.index != nil {
		if i, ok := s.index[at]; ok {
			return i
		}
		return -1
	}
	for i := range s.list {
		if s.list[i].at == at {
			return i
		}
	}
	return -1
}

// add adds a fact about a place of which there is none.
func (s *factSet) add(f placedFact) {
	s.list = append(s.list, f)
	s.weight += weightOf(f.at.Name)
	switch {
	case s.index != nil:
		s.index[f.at] = len(s.list) - 1
	case len(s.list) > fewFacts:
		s.number()
	}
}

// drop removes facts, and reports whether there was one to remove.
func (s *factSet) drop(which func(*placedFact) bool) bool {
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(f placedFact) bool {
		if !which(&f) {
			return false
		}
		s.weight -= weightOf(f.at.Name)
		return true
	})
	if len(s.list) == before {
		return false
	}
	s.number()
	return true
}

// forget drops the oldest facts until the others weigh no more than most, if possible facts that another live read can
// find out again.
func (s *factSet) forget(most int) {
	over := func(*placedFact) bool { return s.weight > most }
	s.drop(func(f *placedFact) bool { return f.State != Gone && over(f) })
	s.drop(over)
}

// number makes the index anew, if there are enough facts for one.
func (s *factSet) number() {
	s.index = nil
	if len(s.list) <= fewFacts {
		return
	}
	s.index = make(map[Coordinates]int, len(s.list))
	for i := range s.list {
		s.index[s.list[i].at] = i
	}
}

// clone returns a copy that shares nothing.
func (s *factSet) clone() factSet {
	c := factSet{list: slices.Clone(s.list), weight: s.weight}
	c.number()
	return c
}

// check verifies that the parts agree.
func (s *factSet) check() error {
	weight := 0
	for i := range s.list {
		weight += weightOf(s.list[i].at.Name)
		if s.find(s.list[i].at) != i {
			return fmt.Errorf("%+v is not found where it is", s.list[i].at)
		}
	}
	if weight != s.weight || s.index != nil && len(s.index) != len(s.list) {
		return fmt.Errorf("they weigh %d, %d are counted and %d of %d found", weight, s.weight, len(s.index), len(s.list))
	}
	return nil
}
