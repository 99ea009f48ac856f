package transforms

// FilterIn is Filter as a host runs it.
var FilterIn = filterObjects
