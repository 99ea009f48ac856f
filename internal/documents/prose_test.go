package documents

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// A phrase is a pattern that CONTRIBUTING's rules of style replace: a clause or a pronoun in place of a noun, or a word with a private
// meaning. A match does not count if the text before it matches before, or the text after it matches after (RE2 has no lookaround).
type phrase struct {
	name                 string
	match, before, after *regexp.Regexp
}

func newPhrase(name, match, before, after string) phrase {
	p := phrase{name: name, match: regexp.MustCompile(match)}
	if before != "" {
		p.before = regexp.MustCompile(`(?i)(?:` + before + `)$`)
	}
	if after != "" {
		p.after = regexp.MustCompile(`(?i)^(?:` + after + `)`)
	}
	return p
}

var phrases = []phrase{
	newPhrase("pronoun for a noun", `(?i)\b(?:that|those|theirs) of\b`, "", ` course\b`),
	newPhrase("pronoun as subject", `(?:^|[.;:] )(?:One|Ones|Those|Theirs|one|those|theirs) (?:that|which|who|of|with|without|in|is|are|has|have|was|were)\b`, "", ` the following`),
	newPhrase("of which", `(?i)\b(?:of which|of whom|of whose)\b`, "", ""),
	newPhrase("Of ... first", `(?:^|[.;:] )Of [a-z]`, "", `ourse`),
	newPhrase("is of", `(?i)\b(?:is|are|was|were) of (?:a|an|the|its|no|one|which|all|their|some|several|this|that|each|those|these|another)\b`, "",
		` (?:type|form|same|order|shape|use|interest|size|length|course)\b`),
	newPhrase("counting by so", `(?i)\bso (?:many|much|often|long)\b`, "", ` (?:as|that)\b`),
	newPhrase("tell for report", `(?i)\b(?:told|tells)\b`, "", ` (?:apart|the difference|\w+ (?:from|apart))`),
	newPhrase("tell for report", `(?i)\bto tell\b`, "", ` (?:apart|whether|the difference|\w+ from)`),
	newPhrase("say for report", `(?i)\bsays (?:whether|what|which|when|where|of|so|no)\b`, "", ` is wrong`),
	newPhrase("anew, beside, stand", `(?i)\banew\b|\bbesides?\b|\bof late\b|\blately\b`, "", ""),
	newPhrase("anew, beside, stand", `(?i)\b(?:stand|stands|stood)\b`, `as (?:it|they) `, ` (?:for|alone|in for|out)\b`),
	newPhrase("go on", `(?i)\b(?:go|goes|went) on\b`, "", ` to\b`),
	newPhrase("take hold", `(?i)\b(?:take|takes|took|taking) hold\b|\bin force\b`, "", ""),
	newPhrase("is to be", `(?i)\b(?:is|are|was|were) to (?:be|have|come|go|know|stay)\b`, "", ""),
	newPhrase("nothing of", `(?i)\bnothing of\b`, "", ""),
}

var (
	whatClause = regexp.MustCompile(`\b[Ww]hat ([a-z]+)[ ,.;]`)
	question   = regexp.MustCompile(`[^.?!]*\?`)
	// "a hash of what the server returned" lacks a noun; "reports what the server returned" is plain English.
	beforeWhat  = words("of by from in to with for as than on at after before behind over through and or into but like until against")
	subjectWhat = words("is was are were has had comes came goes stands stays")
	saying      = words("say says said show shows shown see know knows known ask asks exactly check checks explain explains describe describes name names")
	// A preposition or a form of "be" as the name of a value does not say what the value is.
	functionWords = words("of at to by is has all are was had be so as on with without behind beside between here there then again since given taken gone kept told such")
)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(s) {
		set[word] = true
	}
	return set
}

// phrasesIn returns the phrases in a paragraph, each with its context.
func phrasesIn(text string) (found []string) {
	add := func(name string, start, end int) {
		found = append(found, fmt.Sprintf("%s: %s", name, strings.TrimSpace(text[max(0, start-40):min(end+40, len(text))])))
	}
	for _, p := range phrases {
		for _, m := range p.match.FindAllStringIndex(text, -1) {
			if p.after != nil && p.after.MatchString(text[m[1]:]) || p.before != nil && p.before.MatchString(text[:m[0]]) {
				continue
			}
			add(p.name, m[0], m[1])
		}
	}
	masked := question.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
	for _, m := range whatClause.FindAllStringSubmatchIndex(masked, -1) {
		verb, before := text[m[2]:m[3]], strings.Fields(text[:m[0]])
		if verb == "you" {
			continue
		}
		if n := len(before); n > 0 && !strings.HasSuffix(before[n-1], ".") && !strings.ContainsAny(before[n-1][len(before[n-1])-1:], ";:*") {
			word := strings.Trim(strings.ToLower(before[n-1]), "(,")
			if !beforeWhat[word] && (!subjectWhat[verb] || saying[word]) {
				continue
			}
		}
		add("what-clause for a noun", m[0], m[1])
	}
	return found
}

// A tally counts the phrases in a package or a document, and the function words among the identifiers of a package.
type tally struct {
	words, lines, identifiers int
	phrases                   []string
}

func (c *tally) add(path string, paragraphs []string) {
	for _, p := range paragraphs {
		c.words += len(strings.Fields(p))
		for _, found := range phrasesIn(p) {
			c.phrases = append(c.phrases, path+": "+found)
		}
	}
}

// addGo adds a file of Go.
func (c *tally) addGo(path string, text []byte) {
	c.lines += strings.Count(string(text), "\n")
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(text))
	s.Init(file, text, nil, scanner.ScanComments)
	var lines []string // of a paragraph
	last := 0
	end := func() {
		c.add(path, []string{strings.Join(lines, " ")})
		lines = nil
	}
	for {
		pos, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			end()
			return
		case token.IDENT:
			if functionWords[literal] {
				c.identifiers++
			}
		case token.COMMENT:
			line := file.Line(pos)
			prose := strings.HasPrefix(literal, "// ") && !strings.HasPrefix(literal, "//    ") && !strings.HasPrefix(literal, "// \t")
			if !prose || line != last+1 {
				end()
			}
			if last = line; prose {
				lines = append(lines, strings.TrimSpace(literal[2:]))
			}
		}
	}
}

// prose returns the paragraphs of a document, without code, HTML comments, links and table rulers.
func prose(text string) (paragraphs []string) {
	text = regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllString(text, "")
	text = regexp.MustCompile("(?ms)^```.*?^```[^\n]*$").ReplaceAllString(text, "")
	text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "CODE")
	text = regexp.MustCompile(`\]\([^)\n]*\)`).ReplaceAllString(text, "]")
	var lines []string
	end := func() {
		paragraphs = append(paragraphs, strings.Join(lines, " "))
		lines = nil
	}
	item := regexp.MustCompile(`^\s*(?:[-*+]|\d+\.|#+|>)\s+`)
	ruler := regexp.MustCompile(`^\s*\|[\s:|-]+\|\s*$`)
	for line := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(line, "    ") && len(lines) == 0
		if item.MatchString(line) || strings.TrimSpace(line) == "" || indented || ruler.MatchString(line) {
			end()
		}
		if !indented && !ruler.MatchString(line) && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(item.ReplaceAllString(line, "")))
		}
	}
	end()
	return paragraphs
}

// TestProse limits the phrases in comments and documents that need a second reading, and function words as identifiers. A low count does
// not prove that a text is clear, but a high count proves that it is not.
func TestProse(t *testing.T) {
	const (
		maxComments    = 5 // phrases in 1,000 words of comments
		maxDocuments   = 4 // phrases in 1,000 words of a document
		maxIdentifiers = 2 // function words in 100 lines
		minWords       = 300
		minLines       = 200
	)
	packages, documents := map[string]*tally{}, map[string]*tally{}
	tallyOf := func(tallies map[string]*tally, name string) *tally {
		if tallies[name] == nil {
			tallies[name] = &tally{}
		}
		return tallies[name]
	}
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	expect.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules"}, name)) {
			return filepath.SkipDir
		}
		path = strings.TrimPrefix(path, root+"/")
		switch {
		case strings.HasSuffix(name, ".md"):
			tallyOf(documents, path).add(path, prose(read(t, path)))
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			if text := expect.Get(os.ReadFile(filepath.Join(root, path)))(t); !generated.Match(text) {
				tallyOf(packages, filepath.Dir(path)).addGo(path, text)
			}
		}
		return err
	}))
	per := func(n, total, unit int) float64 { return float64(n*unit) / float64(max(total, 1)) }
	for name, c := range packages {
		if n := per(len(c.phrases), c.words, 1000); c.words >= minWords && n > maxComments {
			t.Errorf("%s: %.1f phrases in 1,000 words of comments, at most %d:\n%s", name, n, maxComments, strings.Join(c.phrases, "\n"))
		}
		if n := per(c.identifiers, c.lines, 100); c.lines >= minLines && n > maxIdentifiers {
			t.Errorf("%s: %.1f prepositions and verbs of being as identifiers in 100 lines, at most %d", name, n, maxIdentifiers)
		}
		t.Logf("%-30s %5.1f %6d %5.1f %6d", name, per(len(c.phrases), c.words, 1000), c.words, per(c.identifiers, c.lines, 100), c.lines)
	}
	for name, c := range documents {
		if n := per(len(c.phrases), c.words, 1000); c.words >= minWords && n > maxDocuments {
			t.Errorf("%s: %.1f phrases in 1,000 words, at most %d:\n%s", name, n, maxDocuments, strings.Join(c.phrases, "\n"))
		}
		t.Logf("%-30s %5.1f %6d", name, per(len(c.phrases), c.words, 1000), c.words)
	}
}
