package configs

// Nearest returns the candidate that a misspelt word was probably meant to be,
// or "". Commands and flags are matched as keys are.
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }
