"""The Scheme of profiles: the values of expressions, and a guaranteed end of each run.

Tests of evaluate/sbpl/numbers.py.
"""

from __future__ import annotations

import pytest

from sandwright.evaluate.sbpl.datum import NIL, Value, write_datum
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.forms import SPECIAL_FORMS
from sandwright.evaluate.sbpl.machine import Machine, SbplLimits, SchemeEnvironment
from sandwright.evaluate.sbpl.procedures import core_procedures
from sandwright.evaluate.sbpl.reader import read_data
from sandwright.evaluate.sbpl.source import SourceFile
from sandwright.evaluate.sbpl.strings import string_procedures


def run(text: str, limits: SbplLimits | None = None) -> Value:
    machine = Machine(SPECIAL_FORMS, limits or SbplLimits())
    environment = SchemeEnvironment({**core_procedures(machine), **string_procedures(machine)})
    value: Value = NIL
    for datum in read_data(SourceFile("p.sb", text)):
        machine.span = datum.span
        value = machine.run(datum.value, environment)
    return value


GIVES = {
    "quote": ("'(a b . c)", "(a b . c)"),
    "empty list is itself": ("()", "()"),
    "if": ("(if (< 1 2) 'yes 'no)", "yes"),
    "if without else": ("(if #f 1)", "()"),
    "the empty list is true": ("(if '() 1 2)", "1"),
    "if takes no notice of more": ("(if #t 1 2 3)", "1"),
    "define": ("(define x 5) (+ x 1)", "6"),
    "define takes no notice of more": ('(define x "a" "b") x', '"a"'),
    "define procedure": ("(define (f a . rest) (list a rest)) (f 1 2 3)", "(1 (2 3))"),
    "lambda of any number": ("((lambda all all) 1 2)", "(1 2)"),
    "closure": ("(define (adder n) (lambda (x) (+ x n))) ((adder 3) 4)", "7"),
    "set!": ("(define x 1) (define (up) (set! x (+ x 1))) (up) (up) x", "3"),
    "let": ("(let ((a 1) (b 2)) (+ a b))", "3"),
    "let does not see itself": ("(define a 1) (let ((a 2) (b a)) b)", "1"),
    "let*": ("(let* ((a 1) (b (+ a 1))) (list a b))", "(1 2)"),
    "let* procedures see themselves": (
        "(let* ((z 0) (f (lambda (n) (if (= n z) 'end (f (- n 1)))))) (f 3))",
        "end",
    ),
    "letrec": (
        "(letrec ((even (lambda (n) (or (= n 0) (odd (- n 1))))) (odd (lambda (n) (and (> n 0) "
        "(even (- n 1)))))) (even 10))",
        "#t",
    ),
    "named let": ("(let loop ((i 0) (all '())) (if (= i 3) all (loop (+ i 1) (cons i all))))", "(2 1 0)"),
    "cond": ("(cond (#f 1) ((= 1 1) 2) (else 3))", "2"),
    "cond with =>": ('(cond ((assoc "b" \'(("a" 1) ("b" 2))) => cadr) (else 0))', "2"),
    "cond without a match": ("(cond (#f 1))", "()"),
    "cond with only a test": ("(cond ((memq 'b '(a b c))))", "(b c)"),
    "case": ("(case 3 ((1 2) 'low) ((3 4) 'high))", "high"),
    "case with symbols": ("(case 'x ((y) 1) (else 2))", "2"),
    "and": ('(list (and) (and 1 2) (and #f (error "no")))', "(#t 2 #f)"),
    "or": ('(list (or) (or #f 2) (or 1 (error "no")))', "(#f 2 1)"),
    "when and unless": ("(list (when #t 1 2) (when #f 1) (unless #f 3))", "(2 () 3)"),
    "do": ("(do ((i 0 (+ i 1)) (sum 0 (+ sum i))) ((= i 4) sum))", "6"),
    "begin": ("(begin 1 2 3)", "3"),
    "quasiquote": ("(define x '(2 3)) `(1 ,(car x) ,@x . end)", "(1 2 2 3 . end)"),
    "quasiquoted vector": ("`#(1 ,(+ 1 1))", "#(1 2)"),
    "macro of TinyScheme": (
        "(macro (twice form) `(list ,(cadr form) ,(cadr form))) (twice (+ 1 1))",
        "(2 2)",
    ),
    "define-macro": ("(define-macro (swap a b) `(list ,b ,a)) (swap 1 2)", "(2 1)"),
    "defined?": ("(define x 1) (list (defined? 'x) (defined? 'y))", "(#t #f)"),
    "a bound name is no special form": ("(define (when x) (list x)) (when 1)", "(1)"),
    "define inside": ("(define (f) (define a 1) (define (g) (+ a 1)) (g)) (f)", "2"),
    "arithmetic": (
        "(list (+) (- 5) (- 7 2 1) (* 2 3) (/ 6 3) (/ 1 4) (quotient -7 2) (remainder -7 2) (modulo -7 2))",
        "(0 -5 4 6 2 0.25 -3 -1 1)",
    ),
    "comparisons": (
        "(list (< 1 2 3) (< 1 3 2) (= 2 2.0) (>= 3 3 1) (zero? 0) (positive? -1))",
        "(#t #f #t #t #t #f)",
    ),
    "numbers and truth differ": ("(list (eq? 1 #t) (equal? 0 #f) (eqv? 1 1))", "(#f #f #t)"),
    "lists": (
        "(list (length '(1 2)) (append '(1) '(2 3) '(4)) (reverse '(1 2 3)) (list-ref '(a b c) 1))",
        "(2 (1 2 3 4) (3 2 1) b)",
    ),
    "append of improper": ("(append '(1) 2)", "(1 . 2)"),
    "parts": ("(list (cadr '(1 2 3)) (caddr '(1 2 3)) (cddr '(1 2 3)) (caar '((1) 2)))", "(2 3 (3) 1)"),
    "member and assoc": (
        '(list (member "b" \'("a" "b" "c")) (memq \'z \'(a)) (assoc "k" \'(("k" . 1))))',
        '(("b" "c") #f ("k" . 1))',
    ),
    "map": ("(map + '(1 2) '(10 20))", "(11 22)"),
    "map with a closure": ("(map (lambda (x) (* x x)) '(1 2 3))", "(1 4 9)"),
    "for-each goes in order": (
        "(define seen '()) (for-each (lambda (x) (set! seen (cons x seen))) '(1 2)) seen",
        "(2 1)",
    ),
    "apply": ("(apply + 1 '(2 3))", "6"),
    "filter and partition": (
        "(list (filter positive? '(1 -1 2)) (partition positive? '(1 -1 2)))",
        "((1 2) ((1 2) (-1)))",
    ),
    "foldr": ("(foldr (lambda (all x) (cons x all)) '() '(1 2))", "(2 1)"),
    "flatten": ("(flatten '(1 (2 (3)) ()))", "(1 2 3)"),
    "equal?": ("(list (equal? '(1 (\"a\")) '(1 (\"a\"))) (equal? '(1) '(2)) (eq? 'a 'a))", "(#t #f #t)"),
    "kinds": (
        "(list (null? '()) (pair? '()) (list? '(1 . 2)) (symbol? 'a) (string? \"\") (procedure? car))",
        "(#t #f #f #t #t #t)",
    ),
    "strings": (
        '(list (string-append "a" "b" "") (string-length "abc") (substring "abcd" 1 3) (substring "abcd" 2))',
        '("ab" 3 "bc" "cd")',
    ),
    "length is in bytes": ('(string-length "é")', "2"),
    "string comparisons": (
        '(list (string=? "a" "a") (string<? "a" "b") (string-ci=? "A" "a") (string>=? "a" "b"))',
        "(#t #t #t #f)",
    ),
    "characters": (
        r'(list (string-ref "a/c" 1) (char=? #\/ #\/) (char->integer #\A) (char-upcase #\b))',
        r"(#\/ #t 65 #\B)",
    ),
    "conversions": (
        '(list (number->string 42) (string->number "42") (string->number "x") (symbol->string \'ab) '
        '(string->symbol "cd"))',
        '("42" 42 #f "ab" cd)',
    ),
    "strings and lists": ('(list (string->list "ab") (list->string (list #\\a #\\b)))', '((#\\a #\\b) "ab")'),
    "regex-quote": (r'(regex-quote "/a.b(c)*[d]?$^|{")', r'"/a\\.b\\(c\\)\\*\\[d]\\?\\$\\^\\|\\{"'),
    "split-string": ('(split-string "/a//b/" "/")', '("a" "b")'),
    "Apple's prefix test by hand": (
        "(define (starts? p s) (let loop ((i 0)) (cond ((>= i (string-length p)) #t) ((>= i "
        "(string-length s)) #f)"
        " ((char=? (string-ref p i) (string-ref s i)) (loop (+ i 1))) (else #f))))"
        '(list (starts? "/a" "/ab") (starts? "/ab" "/a"))',
        "(#t #f)",
    ),
    "a loop of many rounds needs no stack": ("(let loop ((i 0)) (if (< i 20000) (loop (+ i 1)) i))", "20000"),
    "deep recursion within the limit": (
        "(define (count n) (if (= n 0) 0 (+ 1 (count (- n 1))))) (count 3000)",
        "3000",
    ),
}


@pytest.mark.parametrize(("text", "expected"), GIVES.values(), ids=GIVES)
def test_gives(text: str, expected: str) -> None:
    assert write_datum(run(text)) == expected


FAILS = {
    "unbound": ("(define (f)\n  (g 1))\n(f)", "p.sb:2:4: unbound variable: g"),
    "unbound operand": ("(+ 1\n   nothing)", "p.sb:2:4: unbound variable: nothing"),
    "not a procedure": ("(5 1)", "p.sb:1:1: the number 5 is not a procedure"),
    "a string called": ('("a")', "p.sb:1:1: a string is not a procedure"),
    "too few arguments": ("(define (f a b) a)\n(f 1)", "p.sb:2:1: f takes 2 arguments, not 1"),
    "too many arguments": ("((lambda (a) a) 1 2)", "p.sb:1:1: lambda takes 1 arguments, not 2"),
    "too few for a rest": ("((lambda (a . b) a))", "p.sb:1:1: lambda takes at least 1 arguments, not 0"),
    "arguments of a built-in": ("(car)", "p.sb:1:1: car takes 1 arguments, not 0"),
    "car of no pair": ("(car 5)", "p.sb:1:1: car of the number 5, which is no pair"),
    "cadr of a short list": ("(cadr '(1))", "p.sb:1:1: cadr of (), which is no pair"),
    "string-append of #f": ('(string-append "a" #f)', "p.sb:1:1: string-append needs a string, not #f"),
    "string=? of #f": ('(string=? #f "TRUE")', "p.sb:1:1: string=? needs a string, not #f"),
    "plus of a string": ('(+ 1 "2")', "p.sb:1:1: + needs numbers, not a string"),
    "substring out of range": (
        '(substring "abc" 2 5)',
        "p.sb:1:1: substring: the number 5 is no index of a string of 3 bytes",
    ),
    "string-ref at the end": (
        '(string-ref "abc" 3)',
        "p.sb:1:1: string-ref: 3 is no index of a string of 3 bytes",
    ),
    "division by zero": ("(quotient 1 0)", "p.sb:1:1: division by zero"),
    "error": (
        '(define (check x)\n  (if (not x)\n    (error "needs" x \'param)))\n(check #f)',
        "p.sb:3:5: needs #f param",
    ),
    "set! of nothing": ("(set! x 1)", "p.sb:1:1: set!: unbound variable: x"),
    "malformed if": ("(if)", "p.sb:1:1: malformed if"),
    "malformed let": ("(let ((1 2)) 3)", "p.sb:1:1: a binding must be (name expression)"),
    "malformed lambda": ("(lambda (1) 2)", "p.sb:1:1: a parameter must be a symbol"),
    "map of no list": ("(map car 5)", "p.sb:1:1: what map takes is not a proper list"),
    "dotted call": ("(+ 1 . 2)", "p.sb:1:1: a call cannot be a dotted list"),
    "numbers have an end": ("(let loop ((n 2)) (loop (* n n)))", "p.sb:1:25: a number is out of range"),
}


@pytest.mark.parametrize(("text", "message"), FAILS.values(), ids=FAILS)
def test_fails_with_a_place(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        run(text)
    assert str(caught.value) == message


SMALL = SbplLimits(steps=20_000, depth=300, string=5_000)

ENDLESS = {
    "recursion": ("(define (f n)\n  (+ 1 (f n)))\n(f 1)", "the profile recurses deeper than 300 expressions"),
    "mutual recursion": (
        "(define (f) (list (g)))\n(define (g) (list (f)))\n(f)",
        "the profile recurses deeper than 300 expressions",
    ),
    "loop": ("(let loop () (loop))", "the profile runs for more than 20000 steps"),
    "do loop": ("(do ((i 0 (+ i 1))) (#f))", "the profile runs for more than 20000 steps"),
    "macro that gives itself": ("(define-macro (m) '(m))\n(m)", "the profile runs for more than 20000 steps"),
    "a string that doubles": (
        '(let loop ((s "x")) (loop (string-append s s)))',
        "a string is longer than 5000 bytes",
    ),
    "a list that doubles": (
        "(let loop ((l '(1))) (loop (append l l)))",
        "the profile runs for more than 20000 steps",
    ),
    "equal? of a tree that doubles": (
        "(define (tree n) (if (= n 0) '() (let ((t (tree (- n 1)))) (cons t t))))\n(equal? (tree "
        "40) (tree 40))",
        "the profile runs for more than 20000 steps",
    ),
    "a string by number": (
        "(make-string 1000000000)",
        "make-string cannot make a string of the number 1000000000 bytes",
    ),
}


@pytest.mark.parametrize(("text", "message"), ENDLESS.values(), ids=ENDLESS)
def test_every_run_ends(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        run(text, SMALL)
    assert caught.value.message == message
    assert caught.value.position.file == "p.sb"


def test_the_limits_of_a_real_run_hold_for_endless_recursion() -> None:
    with pytest.raises(ProfileError, match="recurses deeper than 10000 expressions"):
        run("(define (f) (cons 1 (f))) (f)")
