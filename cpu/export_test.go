package cpu

// Winograd names the operations that Winograd's method does in training on Options.Batch samples.
func (e *Executor) Winograd() (names []string) {
	for _, o := range e.programs[key{e.options.Batch, false}].winograd {
		names = append(names, o.Name+": "+o.Kind.String())
	}
	return names
}
