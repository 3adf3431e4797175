package sweep

var plots = map[string]func(*Results) string{}
