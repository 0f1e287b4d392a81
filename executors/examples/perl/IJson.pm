# One line to one object under the rules of I-JSON (SPEC 3), and back to JSON.
# A string is a scalar, null undef, an array a reference; Num, Bool and Obj say what a scalar could not.
package IJson;
use strict;
use warnings;

my %ESCAPES = ('"' => '"', '\\' => '\\', '/' => '/', b => "\b", f => "\f", n => "\n", r => "\r", t => "\t");
my %SHORT = map { $ESCAPES{$_} => $_ } keys %ESCAPES;
my $HIGH = qr/[dD][89abAB][0-9a-fA-F]{2}/;
my $LOW = qr/[dD][c-fC-F][0-9a-fA-F]{2}/;

# The object on a line of bytes. Dies where there is none.
sub parse_line {
    my ($text) = @_;
    my $characters = $text; # 'UTF-8' of Encode would refuse noncharacters, too
    utf8::decode($characters) && $characters !~ /[\x{D800}-\x{DFFF}]|[^\x{0}-\x{10FFFF}]/ or die "not UTF-8\n";
    $text =~ s/\A\xEF\xBB\xBF//;
    my $value = read_value(\$text, 1);
    $text =~ /\G[ \t\r\n]*\z/gc or die "more than one value\n";
    return ref $value eq 'Obj' ? $value : die "no object\n";
}

sub read_value {
    my ($text, $depth) = @_;
    $$text =~ /\G[ \t\r\n]+/gc;
    return read_string($text) if $$text =~ /\G"/gc;
    if ($$text =~ /\G([\[{])/gc) {
        die "more than 64 levels\n" if $depth > 64;
        return $1 eq '{' ? read_object($text, $depth) : read_array($text, $depth);
    }
    return bless \(my $is = $1 eq 'true'), 'Bool' if $$text =~ /\G(true|false)/gc;
    return undef if $$text =~ /\Gnull/gc;
    return read_number($text);
}

sub read_object {
    my ($text, $depth) = @_;
    my $object = bless {keys => [], of => {}}, 'Obj';
    until ($$text =~ /\G[ \t\r\n]*\}/gc) {
        die "not JSON\n" if @{$object->{keys}} && $$text !~ /\G[ \t\r\n]*,/gc;
        $$text =~ /\G[ \t\r\n]*"/gc or die "expected a key\n";
        my $key = read_string($text);
        die "a key twice\n" if exists $object->{of}{$key};
        $$text =~ /\G[ \t\r\n]*:/gc or die "expected a colon\n";
        push @{$object->{keys}}, $key;
        $object->{of}{$key} = read_value($text, $depth + 1);
    }
    return $object;
}

sub read_array {
    my ($text, $depth) = @_;
    my @array;
    until ($$text =~ /\G[ \t\r\n]*\]/gc) {
        die "not JSON\n" if @array && $$text !~ /\G[ \t\r\n]*,/gc;
        push @array, read_value($text, $depth + 1);
    }
    return \@array;
}

sub read_string {
    my ($text) = @_;
    my $string = '';
    until ($$text =~ /\G"/gc) {
        if ($$text =~ /\G([^"\\\x00-\x1f]+)/gc) { utf8::decode(my $piece = $1); $string .= $piece }
        elsif ($$text =~ m{\G\\(["\\/bfnrt])}gc) { $string .= $ESCAPES{$1} }
        elsif ($$text =~ /\G\\u($HIGH)\\u($LOW)/gc) {
            $string .= chr(0x10000 + ((hex($1) & 0x3FF) << 10) + (hex($2) & 0x3FF));
        }
        elsif ($$text =~ /\G\\u(?:$HIGH|$LOW)/gc) { $string .= "\x{FFFD}" }
        elsif ($$text =~ /\G\\u([0-9a-fA-F]{4})/gc) { $string .= chr hex $1 }
        else { die "a bad string\n" }
    }
    return $string;
}

sub read_number {
    my ($text) = @_;
    $$text =~ /\G(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)/gc or die "not JSON\n";
    die "an integer out of range\n" if $2 eq '' && (length $1 > 17 || abs $1 > 9007199254740991);
    die "a number too large\n" if abs("$1$2") == 9**9**9;
    return bless \(my $digits = "$1$2"), 'Num';
}

# Compact JSON in characters. A hash is an object too, in the order of its keys.
sub to_json {
    my ($value) = @_;
    return 'null' unless defined $value;
    my $kind = ref $value or return quoted($value);
    return $$value if $kind eq 'Num';
    return $$value ? 'true' : 'false' if $kind eq 'Bool';
    return '[' . join(',', map { to_json($_) } @$value) . ']' if $kind eq 'ARRAY';
    my ($keys, $of) = $kind eq 'Obj' ? @$value{qw(keys of)} : ([sort keys %$value], $value);
    return '{' . join(',', map { quoted($_) . ':' . to_json($of->{$_}) } @$keys) . '}';
}

sub quoted {
    my ($string) = @_;
    $string =~ s/([\x00-\x1f"\\])/$SHORT{$1} ? "\\$SHORT{$1}" : sprintf '\\u%04x', ord $1/ge;
    return qq("$string");
}

1;
