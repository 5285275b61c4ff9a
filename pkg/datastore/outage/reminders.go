package outage

import "time"

// remindFirst and remindMost bound the intervals between reminders: they double.
const (
	remindFirst = time.Minute
	remindMost  = time.Hour
)

// Reminders says when to log again that something is still wrong.
type Reminders struct {
	since    time.Time
	next     time.Time
	interval time.Duration
}

// NewReminders starts with now, when the first line is logged.
func NewReminders() *Reminders {
	now := time.Now()
	return &Reminders{since: now, next: now.Add(remindFirst), interval: remindFirst}
}

// Due reports whether to log again, and if so doubles the interval.
func (r *Reminders) Due() bool {
	now := time.Now()
	if now.Before(r.next) {
		return false
	}
	r.interval = min(2*r.interval, remindMost)
	r.next = now.Add(r.interval)
	return true
}

// Lasting returns how long it has been wrong.
func (r *Reminders) Lasting() time.Duration { return time.Since(r.since) }
