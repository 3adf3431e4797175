package group

// Waits tells whether an exchange of this process is under way.
func Waits(m Member) bool {
	_, ok := m.(*member).hub.waiting(func(workers []int) []int { return workers })
	return ok
}

// LaunchedBy is Launched in another environment.
var LaunchedBy = launched
