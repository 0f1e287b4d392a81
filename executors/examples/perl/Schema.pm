# The part of JSON Schema Draft-7 that this executor judges: small, and never slow.
package Schema;
use strict;
use warnings;
use Exporter 'import';
use File::Basename 'dirname';
use IJson;

our @EXPORT_OK = qw(at field flaws is is_object not_judged problems rule);

open my $file, '<', dirname(__FILE__) . '/rules.json' or die "rules.json: $!";
my $RULES = IJson::parse_line(do { local $/; <$file> });

sub field { my ($object, $key) = @_; return ref $object eq 'Obj' ? $object->{of}{$key} : undef }
sub rule { return field($RULES, $_[0]) }
sub at { my ($key) = @_; return $key =~ /^[A-Za-z_][A-Za-z0-9_-]*\z/ ? ".$key" : '[' . IJson::quoted($key) . ']' }
sub is_object { return ref $_[0] eq 'Obj' }

sub kind_of {
    my ($value) = @_;
    return 'null' unless defined $value;
    return {'' => 'string', Num => 'number', Bool => 'boolean', Obj => 'object', ARRAY => 'array'}->{ref $value};
}

sub is {
    my ($kind, $value) = @_;
    return ref $value eq 'Num' && $$value == int $$value if $kind eq 'integer';
    return kind_of($value) eq $kind;
}

# One text for all values that are equal: keys sorted, numbers as numbers.
sub canonical {
    my ($value) = @_;
    return 0 + $$value if ref $value eq 'Num';
    return '[' . join(',', map { canonical($_) } @$value) . ']' if ref $value eq 'ARRAY';
    return IJson::to_json($value) unless is_object($value);
    return '{' . join(',', map { IJson::quoted($_) . canonical(field($value, $_)) } sort @{$value->{keys}}) . '}';
}

# Each way in which a value breaks a schema, as `path: message`. An own schema misses a field where it would be.
sub problems {
    my ($value, $schema, $path, $own) = @_;
    my ($of, @found) = ($schema->{of});
    my @kinds = ref $of->{type} ? @{$of->{type}} : $of->{type} // ();
    push @found, "$path: is " . kind_of($value) . ', expected ' . join(' or ', @kinds)
        if @kinds && !grep { is($_, $value) } @kinds;
    push @found, "$path: is none of " . substr(IJson::to_json($of->{enum}), 0, 200)
        if $of->{enum} && !grep { canonical($_) eq canonical($value) } @{$of->{enum}};
    push @found, "$path: is too short"
        if is('string', $value) && $of->{minLength} && length $value < ${$of->{minLength}};
    push @found, "$path: is too small" if is('number', $value) && ($of->{minimum} && $$value < ${$of->{minimum}}
        || $of->{exclusiveMinimum} && $$value <= ${$of->{exclusiveMinimum}});
    if (is_object($value)) {
        push @found, map { "$path" . ($own ? at($_) : '') . ": '$_' is missing" }
            grep { !exists $value->{of}{$_} } @{$of->{required} // []};
        my ($known, $rest) = ($of->{properties} && $of->{properties}{of}, $of->{additionalProperties});
        for my $key ($known || $rest ? @{$value->{keys}} : ()) {
            my $part = $known && exists $known->{$key} ? $known->{$key} : $rest;
            if (is_object($part)) { push @found, problems($value->{of}{$key}, $part, $path . at($key), $own) }
            elsif (ref $part eq 'Bool' && !$$part) { push @found, "$path: '$key' is not allowed" }
        }
    }
    if (ref $value eq 'ARRAY' && $of->{items}) {
        push @found, map { problems($value->[$_], $of->{items}, "$path\[$_]", $own) } 0 .. $#$value;
    }
    return @found;
}

# The part of Draft-7 that is judged here. A parameters_schema with any other keyword is refused.
sub parts {
    my ($schema) = @_;
    my $known = field($schema, 'properties');
    my @others = map { field($schema, $_) } qw(items additionalProperties);
    return (is_object($known) ? values %{$known->{of}} : (), grep { is_object($_) } @others);
}

sub flaws {
    my ($schema) = @_;
    my %of = %{$schema->{of}};
    my $reference = $of{'$ref'} // '#';
    $of{type} = [$of{type}] if exists $of{type} && ref $of{type} ne 'ARRAY';
    return ($reference =~ /^#/ ? () : '$.$ref: refers to something outside',
        ($of{type} && !@{$of{type}} ? '$.type: names no type' : ()),
        map({ "\$.$_: has a name twice" } grep { has_a_double($of{$_}) } qw(type required)),
        problems(bless({keys => $schema->{keys}, of => \%of}, 'Obj'), rule('schema'), '$', 1),
        map { flaws($_) } grep { is_object($_) } parts($schema));
}

sub has_a_double {
    my ($names) = @_;
    my %seen;
    return ref $names eq 'ARRAY' && grep { $seen{canonical($_)}++ } @$names;
}

sub not_judged {
    my ($schema) = @_;
    return 'boolean schema' unless is_object($schema);
    my $items = field($schema, 'items');
    my $judged = rule('schema')->{of}{properties}{of};
    return ((grep { !$judged->{$_} } @{$schema->{keys}}),
        (defined $items && !is_object($items) ? 'items' : ()), map { not_judged($_) } parts($schema));
}

1;
