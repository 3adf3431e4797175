package group

import "time"

// Local returns the members of a group whose workers are goroutines of this process. An exchange that waits for longer than
// timeout fails.
func Local(size int, timeout time.Duration) []Member {
	return newHub(size, 0, size, timeout).members()
}
