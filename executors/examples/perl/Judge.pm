# Whether an invocation can be performed (SPEC 2, 4 and 8), and what the agent receives.
package Judge;
use strict;
use warnings;
use IJson;
use Schema qw(at field flaws is is_object not_judged problems rule);

sub invocation_problems {
    my ($asked) = @_;
    my @found = problems($asked, rule('invocation'), '$', 1);
    my $blueprint = field($asked, 'agent_blueprint');
    my $servers = field($blueprint, 'mcp_servers');
    for my $key (is_object($servers) ? @{$servers->{keys}} : ()) {
        my ($server, $path) = ($servers->{of}{$key}, '$.agent_blueprint.mcp_servers' . at($key));
        my $type = field($server, 'type') // 'stdio';
        push @found, problems($server, rule($type eq 'stdio' ? 'program' : 'remote'), $path, 1);
        my $url = field($server, 'url');
        push @found, "$path.url: expected http:// or https://" if is('string', $url) && $url !~ m{^https?://};
    }
    push @found, '$.agent_blueprint: output_schema and output_format contradict each other'
        if 2 == grep { is_object(field($blueprint, $_)) } qw(output_schema output_format);
    my $dir = field($asked, 'project_dir');
    push @found, '$.project_dir: expected an absolute path' if is('string', $dir) && $dir !~ m{^/};
    push @found, '$: executor_session_id is missing'
        if (field($asked, 'mode') // '') eq 'resume' && !defined field($asked, 'executor_session_id');
    return @found;
}

sub error {
    my ($type, $message, %more) = @_;
    my $no = bless \(my $false = 0), 'Bool';
    return {type => $type, message => $message, retryable => $no, side_effects => 'none', origin => 'caller', %more};
}
sub invalid { return error('invalid_invocation', join('; ', @_), details => {problems => [@_]}) }
sub lacking {
    return error('unsupported_capability', 'not served here: ' . join(', ', @_), details => {missing => [@_]});
}

# The error that an invocation ends with before any work, or undef where there is nothing against it.
sub refusal {
    my ($asked) = @_;
    my $version = field($asked, 'schema_version');
    return invalid('$.schema_version: expected a version such as 3.0')
        unless is('string', $version) && $version =~ /^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\z/;
    return error('unsupported_schema_version', "$version is not spoken here, only 3.0 is",
        details => {requested => $version, supported => ['3.0']}) unless $version =~ /^3\./;
    my @problems = invocation_problems($asked);
    return invalid(@problems) if @problems;
    my $needed = field($asked, 'requires');
    return lacking(@$needed) if $needed && @$needed;
    return lacking('resume') if field($asked, 'mode') eq 'resume';
    my $blueprint = field($asked, 'agent_blueprint');
    return lacking('agent_type:procedural') if (field($blueprint, 'type') // '') eq 'procedural';
    my $schema = field($blueprint, 'parameters_schema') // rule('prompt');
    my @flaws = flaws($schema);
    return invalid(map { "\$.agent_blueprint.parameters_schema: in it, $_" } @flaws) if @flaws;
    my @unknown = not_judged($schema);
    return lacking(map { "parameters_schema:$_" } @unknown) if @unknown;
    my @errors = problems(field($asked, 'parameters'), $schema, '$', 0);
    return error('parameters_validation_failed', join('; ', @errors), validation_errors => \@errors,
        details => {validation_errors => \@errors, schema => $schema}) if @errors;
    my $dir = field($asked, 'project_dir') // '/';
    utf8::encode(my $path = $dir);
    return index($path, "\0") < 0 && -d $path ? undef : error('workspace_error', "$dir is no directory", origin => 'environment');
}

# What the agent receives: the prompt, or the <inputs> block (SPEC 8.2).
sub agent_text {
    my ($asked) = @_;
    my $parameters = field($asked, 'parameters');
    return field($parameters, 'prompt') unless field(field($asked, 'agent_blueprint'), 'parameters_schema');
    my $name = sub { $_[0] =~ /^[A-Za-z_][A-Za-z0-9_.-]*\z/ ? $_[0] : json($_[0]) };
    my $body = join '', map { $name->($_) . ': ' . shown(field($parameters, $_)) . "\n" } @{$parameters->{keys}};
    $body =~ s{<(?=\s*/?\s*inputs\b)}{&lt;}gi;
    return "<inputs>\n$body</inputs>";
}

sub shown {
    my ($value) = @_;
    return json($value) unless is('string', $value) && length $value;
    my @lines = split /\r\n|[\n\r\x{0B}\f\x{1C}-\x{1E}\x{85}\x{2028}\x{2029}]/, $value, -1;
    return @lines == 1 ? $value : join "\n", '|', map { "  $_" } @lines;
}

sub json {
    my $json = IJson::to_json($_[0]);
    $json =~ s/([\x{85}\x{2028}\x{2029}])/sprintf '\\u%04x', ord $1/ge;
    return $json;
}

1;
