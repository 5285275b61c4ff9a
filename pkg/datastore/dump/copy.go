package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Copy puts all records of a source into a sink, which it does not finish. Progress is called with the keys copied and
// those that there are.
func Copy(ctx context.Context, from Source, to Sink, progress func(done, all int64)) (head Head, err error) {
	done := int64(0)
	err = from.Read(ctx,
		func(h Head) error { head = h; return nil },
		func(r Record) error {
			if err := errors.Join(ctx.Err(), to.Put(r)); err != nil {
				return err
			}
			done++
			progress(done, head.Keys)
			return nil
		})
	return head, err
}

// Compare returns an error that names the first difference between two stores: their number of keys, a key, its value,
// its revisions, or whether it goes by itself. When it goes is not compared: that time runs. Progress is as in Copy.
func Compare(ctx context.Context, want, got Source, progress func(done, all int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	records, ended := make(chan Record), make(chan error, 1)
	var gotKeys int64
	go func() {
		defer close(records)
		ended <- got.Read(ctx,
			func(h Head) error { gotKeys = h.Keys; return nil },
			func(r Record) error {
				select {
				case records <- r:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
	}()
	var head Head
	compared := int64(0)
	err := want.Read(ctx,
		func(h Head) error { head = h; return nil },
		func(w Record) error {
			g, ok := <-records
			if !ok {
				return fmt.Errorf("%s is missing", w.Key)
			}
			if err := differ(w, g); err != nil {
				return err
			}
			compared++
			progress(compared, head.Keys)
			return nil
		})
	var more Record
	surplus := false
	if err == nil {
		more, surplus = <-records
	}
	cancel()
	for range records { // its end
	}
	gotErr := <-ended
	switch {
	case gotErr != nil && !errors.Is(gotErr, context.Canceled):
		return gotErr // a key that is missing is its consequence
	case err != nil:
		return err
	case surplus:
		return fmt.Errorf("%s should not be there", more.Key)
	case gotErr != nil:
		return gotErr
	case gotKeys != head.Keys || compared != head.Keys:
		return fmt.Errorf("there are %d keys instead of %d, of which %d were compared", gotKeys, head.Keys, compared)
	}
	return nil
}

// differ returns an error that says how a record differs from what it should be.
func differ(want, got Record) error {
	switch {
	case !bytes.Equal(want.Key, got.Key):
		return fmt.Errorf("%s is where %s should be", got.Key, want.Key)
	case !bytes.Equal(want.Value, got.Value):
		return fmt.Errorf("%s has another value", want.Key)
	case want.CreateRevision != got.CreateRevision || want.ModRevision != got.ModRevision:
		return fmt.Errorf("%s has the revisions %d and %d instead of %d and %d", want.Key, got.CreateRevision, got.ModRevision, want.CreateRevision, want.ModRevision)
	case (want.TTL == 0) != (got.TTL == 0):
		return fmt.Errorf("%s goes after %s, and should after %s", want.Key, got.TTL, want.TTL)
	}
	return nil
}
