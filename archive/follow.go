package archive

import (
	"context"
	"path/filepath"
	"time"
)

// every is how far the index may lag behind a run that goes on.
const every = 2 * time.Second

// Follow keeps the index at what the folder of a run that goes on says, until stop, which gives the last error. It works beside
// the training and never keeps it waiting; what it does not come to is read when somebody asks for the list.
func Follow(run string) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- follow(ctx, run) }()
	return func() error {
		cancel()
		return <-done
	}
}

func follow(ctx context.Context, run string) error {
	x, err := Open(context.Background(), filepath.Dir(run))
	if err != nil {
		return err
	}
	defer x.Close()
	for {
		err := x.Sync(context.Background(), filepath.Base(run))
		select {
		case <-ctx.Done():
			if err == nil {
				err = x.Sync(context.Background(), filepath.Base(run)) // its end
			}
			return err
		case <-time.After(every):
		}
	}
}
