package graph

import "maps"

// room tells how many entries a map of the graph has held, since it was made. Go's maps keep the room that they have ever needed.
type room int

// worthIt is for how many entries a map has room that is made anew.
const worthIt = 4096

// needs notes how many entries the map holds.
func (r *room) needs(entries int) { *r = max(*r, room(entries)) }

// trim returns the map, or one with less room if few of its entries are left. For each entry that it copies, seven have been removed.
func trim[K comparable, V any](m map[K]V, r *room) map[K]V {
	if int(*r) < worthIt || len(m) > int(*r)/8 {
		return m
	}
	*r = room(len(m))
	left := make(map[K]V, len(m))
	maps.Copy(left, m)
	return left
}
