package group

// Waits tells whether an exchange of this process is under way.
func Waits(m Member) bool {
	_, ok := m.(*member).hub.waiting()
	return ok
}

// LaunchedBy is Launched in another environment.
var LaunchedBy = launched
